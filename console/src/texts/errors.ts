// Texts about errors: every word of the service has its sentence.
import type { Reason } from '@latchwork/client';

export const errorsTexts = {
  errors: {
    no_answer: 'The service cannot be reached. Check the connection and try again.',
    timeout: 'The service did not answer in time. Whether it did what was asked is not known.',
    too_many_requests: (seconds: number | undefined) =>
      seconds === undefined ? 'Too many attempts. Wait a while.' : `Too many attempts. Try again in ${seconds} s.`,
    sentences: {
      invalid_password: 'User name and password do not fit.',
      invalid_request: 'Something in the input is not right.',
      not_found: 'It is not there any more. Load the page again.',
      weak_password: 'The password needs at least 8 characters.',
      email_exists: 'There is an account with this email.',
      username_exists: 'There is an account with this name.',
      product_key_exists: 'This product key is taken.',
      product_has_devices:
        'The product still has devices or serial numbers: delete them first, among its serial numbers.',
      too_many_api_keys: 'You have as many API keys as you may have. Delete one that is not used.',
      too_many_products: 'You have as many products as you may have. Delete one that is not used.',
      too_many_members: 'The device has as many members as it may have. Remove one first.',
      too_many_guest_links: 'The device has as many guest links as it may have. Revoke one first.',
      too_many_transfers: 'You have offered as many devices as you may. Withdraw an offer first.',
      product_disabled: 'The product takes no activations. Its owner can change that.',
      device_not_found: 'There is no such device.',
      device_disabled: 'The device is disabled.',
      device_not_activated: 'The device has not been activated yet.',
      forbidden: 'You may not do this.',
      confirmation_required: 'Enter your password first, or sign in again.',
      broker_unavailable: 'The command did not get through: no device is listening, or no broker is connected.',
      internal_error: 'The service failed. Nothing is known about the outcome.',
      unauthorized: 'Your session has ended.',
      too_many_devices: 'The product has as many devices as it may have. Delete one first.',
      too_many_claim_tokens: 'Too many devices are being added at once. Wait a while.',
      invalid_product_key: 'There is no such product.',
      invalid_claim_token: 'The time for adding the device is over. Begin again.',
      invalid_claim_code: 'Serial number and claim code do not fit.',
      claim_code_required: 'The device can be added only with its claim code, which came with it.',
      invalid_client_id: 'The device said a wrong name of its own.',
      activation_not_allowed: 'The product does not take this device.',
      reactivation_not_allowed: 'The device may not be set up again. Its owner can allow it.',
      no_control_params: 'The command says nothing to do.',
      invalid_control_params: 'The device has no such command.',
      unreadable_answer: 'The answer of the service could not be read.',
    } satisfies Record<Exclude<Reason, 'too_many_requests'>, string>,
    unknown: (message: string) => `The service said: ${message}`,
  },
};
